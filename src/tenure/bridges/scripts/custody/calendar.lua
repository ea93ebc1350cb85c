-- The time of the server: whole seconds since the epoch.
local function now()
    return tonumber(redis.call('TIME')[1])
end

-- A time as text, in UTC: a format for year, month, day, hour, minute and second.
local function dated(format, seconds)
    local day, rest = math.floor(seconds / 86400), seconds % 86400
    -- Days since 0000-03-01, counted in eras of 400 years: the leap day is then the last of a year.
    local shifted = day + 719468
    local era = math.floor(shifted / 146097)
    local of_era = shifted - era * 146097
    local year = math.floor(
        (of_era - math.floor(of_era / 1460) + math.floor(of_era / 36524) - math.floor(of_era / 146096)) / 365
    )
    local of_year = of_era - (365 * year + math.floor(year / 4) - math.floor(year / 100))
    local month = math.floor((5 * of_year + 2) / 153)
    local of_month = of_year - math.floor((153 * month + 2) / 5) + 1
    month = month < 10 and month + 3 or month - 9
    year = year + era * 400 + (month <= 2 and 1 or 0)
    return string.format(
        format, year, month, of_month, math.floor(rest / 3600), math.floor(rest % 3600 / 60), rest % 60
    )
end
