-- Return whether the locale of the database knows that é is É in lower case. With LC_CTYPE C,
-- PostgreSQL changes the case of ASCII letters only.
SELECT lower('É') = 'é' AS knows_case;
