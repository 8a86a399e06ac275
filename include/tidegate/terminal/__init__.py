"""What people read: texts of plans, runs, states and settings, and how they are printed."""
