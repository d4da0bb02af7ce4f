"""HeterPoisson: roots and their neighbours drawn afresh at every step."""
