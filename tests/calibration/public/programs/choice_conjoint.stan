// Tasks in each of which one of a few products is chosen: the same part worths for everyone.
data {
  int<lower=1> tasks;
  int<lower=2> products;
  int<lower=1> D;
  array[tasks] matrix[products, D] attributes;
  array[tasks] int<lower=1, upper=products> chosen;
}
parameters {
  vector[D] worth;
}
model {
  worth ~ normal(0, 0.7);
  for (t in 1:tasks) {
    chosen[t] ~ categorical_logit(attributes[t] * worth);
  }
}
