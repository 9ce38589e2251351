// Cormack, Jolly and Seber: survival between occasions, and recapture of who survived.
functions {
  int first_capture(array[] int seen) {
    for (t in 1:size(seen))
      if (seen[t])
        return t;
    return 0;
  }
  int last_capture(array[] int seen) {
    int last = 0;
    for (t in 1:size(seen))
      if (seen[t])
        last = t;
    return last;
  }
}
data {
  int<lower=2> T;
  int<lower=1> I;
  array[I, T] int<lower=0, upper=1> y;
  vector[I] mass;
  vector[I] female;
}
transformed data {
  array[I] int<lower=0, upper=T> first;
  array[I] int<lower=0, upper=T> last;
  for (i in 1:I) {
    first[i] = first_capture(y[i]);
    last[i] = last_capture(y[i]);
  }
}
parameters {
  vector[T - 1] a_phi;
  real b_mass;
  real a_p;
  real b_female;
}
model {
  a_phi ~ normal(1, 0.5);
  b_mass ~ normal(0, 0.4);
  a_p ~ normal(0, 0.7);
  b_female ~ normal(0, 0.4);
  for (i in 1:I) {
    if (first[i] > 0) {
      vector[T - 1] phi = inv_logit(a_phi + b_mass * mass[i]);
      real p = inv_logit(a_p + b_female * female[i]);
      real never = 1;
      for (t in (first[i] + 1):last[i])
        target += log(phi[t - 1]) + bernoulli_lpmf(y[i, t] | p);
      for (s in 1:(T - last[i])) {
        int t = T - s;
        never = (1 - phi[t]) + phi[t] * (1 - p) * never;
      }
      target += log(never);
    }
  }
}
