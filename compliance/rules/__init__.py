"""One file for each subject of rules. A new file here is found without being named anywhere."""
