"""What publishes: the data set's repository folder, its check, the push to the Hub, Harbor tasks, result entries."""
