/*---
description: Fails whenever it is called, as a tool with a mistake in it does.
returns: value
meta: {effect: none}
---*/
SELECT current_setting('conformance.nobody_sets_this');
