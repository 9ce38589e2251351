// refuse: 2 both 20 and 4 can be the number of observations
data { array[20] real y; vector[4] m; }
parameters { real a; }
model { y ~ normal(a, 1); a ~ normal(mean(m), 1); }
