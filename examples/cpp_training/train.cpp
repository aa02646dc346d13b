// A training loop that keeps every step's output and its graph, watched by leakguard.
//
// usage: train [REPORT.json]

#include <leakguard/leakguard.h>
#include <torch/torch.h>

#include <iostream>
#include <string>
#include <vector>

namespace nn = torch::nn;

struct Classifier : nn::Module {
  nn::Linear hidden{nullptr};
  nn::Linear out{nullptr};

  Classifier()
      : hidden(register_module("hidden", nn::Linear(784, 128))), out(register_module("out", nn::Linear(128, 10))) {}

  torch::Tensor forward(const torch::Tensor& x) {
    return out(torch::relu(hidden(x)));
  }
};

int main(int count, char** arguments) {
  torch::manual_seed(0);
  Classifier model;
  torch::optim::SGD optimizer(model.parameters(), 0.1);
  std::vector<torch::Tensor> history;

  leakguard::Watch watch;
  for (int i = 0; i < 40; ++i) {
    const torch::Tensor x = torch::randn({64, 784});
    const torch::Tensor target = torch::randint(10, {64});
    const torch::Tensor scores = model.forward(x);
    const torch::Tensor loss = nn::functional::cross_entropy(scores, target);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    {
      const leakguard::Scope scope("evaluate"); // names the place; what has no scope is known by its line
      history.push_back(torch::softmax(model.forward(x), 1)); // keeps every step's result and its graph
    }
    watch.step();
  }

  std::cout << watch.verdict();
  if (count > 1) {
    watch.save(arguments[1]);
    std::cout << "the whole report: python -m leakguard show " << arguments[1] << "\n";
  }
}
