python -c "
from gan.training import Trainer

trainer = Trainer('grid', lr=0.002, seed=1)
for _ in range(10):
    trainer.epoch()
print(trainer.distance())
"
