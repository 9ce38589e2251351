"""Many fits from one file: a folder for each, resumable, with one table at the end."""
