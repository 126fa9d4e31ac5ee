"""What tests of several rooms share: servers, judges, checkpoints, pages and a stranger's files."""
