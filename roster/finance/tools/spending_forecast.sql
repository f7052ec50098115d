/*---
description: >-
  What this month's spending will come to, for each currency: spent_so_far, plus what was spent on average in the rest
  of the last three months on record (usual_rest), or what is known to be due (known_due: unpaid bills and renewals)
  if that is more. projected is null with no earlier month on record: then nothing can be said. Name based_on_months
  with it; it is an estimate.
examples:
  - Forecast our spending for this month.
  - Give me a spending forecast till the end of the month.
  - Where will we end up by the thirtieth if things go on so?
  - Roughly how much is this month going to cost us altogether?
  - At this pace, will our expenses exceed three thousand in the end?
args:
  currency: {type: string, description: "Only this currency, ISO 4217."}
returns: rows
meta: {reads_private: true, effect: none}
---*/
SELECT f.month, f.currency, f.spent_so_far, f.usual_rest, f.known_due, f.projected, f.usual_month, f.based_on_months,
       f.days_left
  FROM money_forecast(:currency::text) f
 WHERE money_filter(:currency::text, NULL);
