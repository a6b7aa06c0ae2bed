-- Limits that no load reaches: what is measured is the counting, not the refusing.
UPDATE plans
   SET per_minute = 2000000000,
       per_day = 2000000000;
