"""MCMC kernels with their reversals: the protocol, Metropolis–Hastings, Hamiltonian, Gibbs."""
