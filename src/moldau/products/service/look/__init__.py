"""What the pages of all products look like: style sheet, frame, charts, and how numbers are written."""
