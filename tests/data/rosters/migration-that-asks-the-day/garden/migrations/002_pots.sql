CREATE FUNCTION pots_day() RETURNS date LANGUAGE sql AS $$
    -- the day
    SELECT current_date
$$;
