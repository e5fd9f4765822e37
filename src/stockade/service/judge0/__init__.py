"""Judge0's API, by which judges send programs: submissions, alone and in batches, over the same queue."""
