python trainer.py
