// Labels of images by several people: what an image shows is summed out.
data {
  int<lower=1> images;
  int<lower=1> people;
  int<lower=2> classes;
  array[images, people] int<lower=1, upper=classes> label;
  matrix<lower=0>[classes, classes] strength;
  vector<lower=0>[classes] prior_share;
}
parameters {
  simplex[classes] share;
  array[people, classes] simplex[classes] says;
}
model {
  array[people] matrix[classes, classes] log_says;
  share ~ dirichlet(prior_share);
  for (p in 1:people) {
    for (c in 1:classes) {
      says[p, c] ~ dirichlet(strength[c]');
      log_says[p][c] = log(says[p, c])';
    }
  }
  for (i in 1:images) {
    vector[classes] lp = log(share);
    for (p in 1:people) {
      lp += col(log_says[p], label[i, p]);
    }
    target += log_sum_exp(lp);
  }
}
