"""Pipeline schedules, played pass by pass: any, and that of a job."""
