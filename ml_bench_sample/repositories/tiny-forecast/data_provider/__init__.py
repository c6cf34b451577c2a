"""Reading series and cutting them into windows."""
