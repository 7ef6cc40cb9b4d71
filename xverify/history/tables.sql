-- The tables of a history, version 1. No comment may contain a semicolon.

CREATE TABLE runs (
  run INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,
  id TEXT NOT NULL,
  started TEXT NOT NULL,
  command TEXT NOT NULL,
  seed INTEGER NOT NULL,
  budget REAL,             -- seconds
  cases INTEGER,           -- number of calls with --cases, else null
  seconds REAL NOT NULL,
  is_complete INTEGER NOT NULL,
  machine TEXT NOT NULL,   -- system and architecture
  processor TEXT NOT NULL,
  instructions TEXT NOT NULL,
  calls INTEGER NOT NULL,
  vals INTEGER NOT NULL    -- compared values
);

-- The versions of the packages of a run.
CREATE TABLE packages (run INTEGER NOT NULL, package TEXT NOT NULL, version TEXT NOT NULL, PRIMARY KEY (run, package)) WITHOUT ROWID;

-- The ids of the runs that were merged into a run, or its own id.
CREATE TABLE parts (run INTEGER NOT NULL, part TEXT NOT NULL, PRIMARY KEY (part, run)) WITHOUT ROWID;

-- A version of an implementation with its front ends, or of an edition's document.
CREATE TABLE units (unit INTEGER PRIMARY KEY, family TEXT NOT NULL, version TEXT NOT NULL, UNIQUE (family, version));

-- The units of a run.
CREATE TABLE answers (
  run INTEGER NOT NULL,
  unit INTEGER NOT NULL,
  name TEXT NOT NULL,
  is_edition INTEGER NOT NULL,
  calls INTEGER NOT NULL,
  seconds REAL NOT NULL,
  PRIMARY KEY (run, unit)
) WITHOUT ROWID;

CREATE TABLE cell_names (
  cell INTEGER PRIMARY KEY,
  contract TEXT NOT NULL,
  x_dtype TEXT NOT NULL,
  scale_dtype TEXT NOT NULL,
  zero_point_dtype TEXT NOT NULL,
  out_dtype TEXT NOT NULL,
  granularity TEXT NOT NULL,
  variant TEXT NOT NULL,
  subject TEXT NOT NULL,   -- the implementation without its version, with its path in square brackets
  UNIQUE (contract, x_dtype, scale_dtype, zero_point_dtype, out_dtype, granularity, variant, subject)
);

-- The cells that a unit answered in a run. A cell without a row was not answered.
CREATE TABLE cells (
  run INTEGER NOT NULL,
  unit INTEGER NOT NULL,
  cell INTEGER NOT NULL,
  calls INTEGER NOT NULL,
  vals INTEGER NOT NULL,
  status TEXT NOT NULL,
  PRIMARY KEY (cell, run, unit)
) WITHOUT ROWID;

CREATE TABLE clauses (clause INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);

-- The clauses that a unit follows in a run.
CREATE TABLE follows (run INTEGER NOT NULL, unit INTEGER NOT NULL, clause INTEGER NOT NULL, PRIMARY KEY (clause, run, unit)) WITHOUT ROWID;

CREATE TABLE causes (cause TEXT PRIMARY KEY, kind TEXT NOT NULL) WITHOUT ROWID;

-- A cause as a run reports it. The line is a call that shows it.
CREATE TABLE sights (
  run INTEGER NOT NULL,
  cause TEXT NOT NULL,
  severity TEXT NOT NULL,
  sentence TEXT NOT NULL,
  line TEXT NOT NULL,
  PRIMARY KEY (cause, run)
) WITHOUT ROWID;

-- The number of calls of a unit that show a cause in a run.
CREATE TABLE sightings (
  run INTEGER NOT NULL,
  cause TEXT NOT NULL,
  unit INTEGER NOT NULL,
  calls INTEGER NOT NULL,
  PRIMARY KEY (cause, run, unit)
) WITHOUT ROWID;

-- Where a cause was ever seen.
CREATE TABLE cause_cells (cause TEXT NOT NULL, cell INTEGER NOT NULL, PRIMARY KEY (cause, cell)) WITHOUT ROWID;
CREATE TABLE cause_clauses (cause TEXT NOT NULL, clause INTEGER NOT NULL, PRIMARY KEY (cause, clause)) WITHOUT ROWID;

-- The ids that the findings of a cause have in reports that group them differently.
CREATE TABLE cause_keys (cause TEXT NOT NULL, key TEXT NOT NULL, PRIMARY KEY (key, cause)) WITHOUT ROWID;
