"""`moldau demo`: this machine's own metrics, or any log file, through a broker and Spark and back, and counted."""
