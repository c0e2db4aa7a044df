"""The page of a study: what was found, as data, as figures, as one file of HTML."""
