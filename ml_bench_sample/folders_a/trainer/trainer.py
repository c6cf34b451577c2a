from gan.training import Trainer

trainer = Trainer("grid", loss="lsgan", lr=0.002, seed=1)
for _ in range(10):
    trainer.epoch()
print(trainer.distance())
