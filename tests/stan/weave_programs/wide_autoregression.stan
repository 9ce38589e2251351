// data: {"I": 5, "J": 4, "last": [4, 4, 3, 4, 2]}
// Each person has an effect, so that cells are observations; the cell before is data of the cell.
data {
  int I; int J; array[I] int<lower=0, upper=J> last; matrix[I, J] y;
  array[I, J] int<lower=0, upper=1> z; array[I] int<lower=0, upper=1> group;
}
parameters {
  vector[I] u; real<lower=0> tau; vector[J] time; real b; real<lower=0> s;
}
model {
  time ~ normal(0, 1);
  for (i in 1:I) {
    u[i] ~ normal(0, tau);
    if (last[i] > 0) y[i, 1] ~ normal(u[i], s);
    for (j in 2:last[i]) y[i, j] ~ normal(u[i] + time[j] + b * y[i, j - 1], s);
  }
  for (i in 1:I) for (j in 1:last[i]) {
    if (j == 1) z[i, j] ~ bernoulli_logit(u[i]);
    else z[i, j] ~ bernoulli_logit(u[i] + b * z[i][j - 1] + time[j - 1]);
  }
  for (i in 1:I) {
    if (group[i]) {
      for (j in 1:last[i]) y[i, j] ~ student_t(4, time[j], 2);
    } else {
      for (j in 1:last[i]) y[i, j] ~ cauchy(time[j], 2);
    }
  }
}
