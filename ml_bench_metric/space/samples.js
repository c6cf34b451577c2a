// Tasks and candidates of the sample benchmark (package `ml_bench_sample`) to start from.
(function (mlBench) {
  "use strict";

  mlBench.samples = [
    {
      title: "bash: a number in another notation",
      task_id: "tiny-gan/1",
      candidate: 2,
      type: "Bash Script",
      arguments: "{'dataset': 'spiral', 'epochs': 25, 'lr': 0.002}",
      prefix_code: "",
      instruction:
        "I'd like to see a GAN learn the spiral. Please give me the command that trains one on it for 25 epochs with a learning rate of 0.002.",
      program: "python train.py --dataset spiral --epochs 25 --lr 2e-3",
    },
    {
      title: "bash: a value that only contains the asked one",
      task_id: "tiny-gan/1",
      candidate: 3,
      type: "Bash Script",
      arguments: "{'dataset': 'spiral', 'epochs': 25, 'lr': 0.002}",
      prefix_code: "",
      instruction:
        "I'd like to see a GAN learn the spiral. Please give me the command that trains one on it for 25 epochs with a learning rate of 0.002.",
      program: "python train.py --dataset spiral --epochs 25 --lr 0.0025",
    },
    {
      title: "bash: a path in another notation",
      task_id: "tiny-gan/2",
      candidate: 2,
      type: "Bash Script",
      arguments: "{'checkpoint': 'checkpoints/ring.npz', 'num-samples': 250, 'out': 'ring_250.csv'}",
      prefix_code: "",
      instruction:
        "Use the generator in checkpoints/ring.npz to draw 250 points and store them as ring_250.csv. What do I have to type?",
      program: "python sample.py --checkpoint ./checkpoints/./ring.npz --num-samples=250 --out=./ring_250.csv",
    },
    {
      title: "bash: arguments in a comment",
      task_id: "tiny-gan/2",
      candidate: 3,
      type: "Bash Script",
      arguments: "{'checkpoint': 'checkpoints/ring.npz', 'num-samples': 250, 'out': 'ring_250.csv'}",
      prefix_code: "",
      instruction:
        "Use the generator in checkpoints/ring.npz to draw 250 points and store them as ring_250.csv. What do I have to type?",
      program: "python sample.py --checkpoint checkpoints/ring.npz  # --num-samples 250 --out ring_250.csv",
    },
    {
      title: "bash: a variable that the task exports",
      task_id: "tiny-text/26",
      candidate: 0,
      type: "Bash Script",
      arguments: "{'data': 'data/topics.tsv', 'ngram': 2, 'max-features': 500}",
      prefix_code: "pip install numpy\nexport TOPICS_MODEL=/tmp/tiny-text/topics.json",
      instruction:
        "Train on data/topics.tsv with single words and pairs (ngram 2), but no more than 500 features. Save the classifier where TOPICS_MODEL says.",
      program: 'python train.py --data data/topics.tsv --ngram 2 --max-features 500 --out "${TOPICS_MODEL:?}"',
    },
    {
      title: "bash: prose",
      task_id: "tiny-text/25",
      candidate: 4,
      type: "Bash Script",
      arguments: "{'model-file': 'pretrained/reviews.json', 'text': 'a lovely evening with kind waiters'}",
      prefix_code: "",
      instruction: 'Ask the classifier pretrained/reviews.json what it thinks of "a lovely evening with kind waiters".',
      program: "The script prints the label and how certain it is. It needs the file of a classifier and the text.",
    },
    {
      title: "Python: .py in a comment",
      task_id: "tiny-gan/6",
      candidate: 1,
      type: "Python Code",
      arguments: "{'dataset': 'grid', 'lr': 0.002, 'seed': 1, 'epochs': 10}",
      prefix_code: "",
      instruction:
        "Write a little Python program on top of the package: a trainer for the grid with learning rate 0.002 and seed 1 that plays 10 epochs and then prints how far its samples are from the data.",
      program:
        '# Save this as demo.py and run it in the repository\'s folder.\nfrom gan.training import Trainer\n\ntrainer = Trainer("grid", loss="lsgan", lr=0.002, seed=1)\nfor _ in range(10):\n    critic_loss, generator_loss = trainer.epoch()\nprint(critic_loss, generator_loss, trainer.distance())',
    },
    {
      title: "Python: a text in pieces",
      task_id: "tiny-text/31",
      candidate: 2,
      type: "Python Code",
      arguments: "{'text': 'Rain and wind over the hills', 'longest': 3}",
      prefix_code: "",
      instruction:
        'List all n-grams of up to 3 words of "Rain and wind over the hills" with the repository\'s own function, in Python.',
      program:
        'from tinytext.tokens import ngrams\n\nfor term in ngrams("Rain and wind " "over the hills", longest=3):\n    print(term)',
    },
    {
      title: "Python: a comment alone",
      task_id: "tiny-text/32",
      candidate: 1,
      type: "Python Code",
      arguments: "{'model': 'pretrained/reviews.json', 'probability': 0.9}",
      prefix_code: "",
      instruction:
        "Load pretrained/reviews.json in Python and print the labels of data/unlabelled.txt; below a probability of 0.9 print unsure.",
      program: "# pretrained/reviews.json, 0.9\nprint('good')",
    },
  ];
})((globalThis.mlBench ??= {}));
