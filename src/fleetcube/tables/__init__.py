"""Output for people: tables, files of tables, typed selectors of points, cubes in other units."""
