class Trainer:
    """Does nothing."""

    def __init__(self, dataset, **options):
        self.dataset = dataset

    def epoch(self):
        return 0.0, 0.0

    def distance(self):
        return 0.0
