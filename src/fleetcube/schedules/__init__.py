"""Pipeline schedules, simulated pass by pass: any schedule, and that of a job."""
