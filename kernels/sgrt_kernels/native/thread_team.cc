#include "thread_team.h"

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif

#include "vector.h"

namespace sgrt {

namespace {
constexpr int kSpins = 2000;           // some tens of microseconds
constexpr int kSpinsForStart = 20000;  // some hundreds: as long as Python takes from one step to the next

std::vector<int> allowed_processors() {
    std::vector<int> processors;
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return processors;
    for (int i = 0; i < CPU_SETSIZE; ++i)
        if (CPU_ISSET(i, &set)) processors.push_back(i);
#endif
    return processors;
}
}

void Barrier::wait() {
    if (threads_ == 1) return;
    const unsigned generation = generation_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) == threads_ - 1) {
        arrived_.store(0, std::memory_order_relaxed);
        generation_.store(generation + 1, std::memory_order_seq_cst);
        if (sleepers_.load(std::memory_order_seq_cst) > 0) {
            const std::lock_guard<std::mutex> lock(mutex_);
            woken_.notify_all();
        }
        return;
    }
    for (int spin = 0; spin < spins_; ++spin) {
        if (generation_.load(std::memory_order_acquire) != generation) return;
        pause();
    }
    std::unique_lock<std::mutex> lock(mutex_);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    woken_.wait(lock, [&] { return generation_.load(std::memory_order_seq_cst) != generation; });
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
}

ThreadTeam::ThreadTeam(int threads)
    : threads_(threads),
      processors_(allowed_processors()),
      start_(threads, kSpinsForStart),
      inside_(threads, kSpins),
      finish_(threads, kSpins),
      counters_(new Counter[kPhases * static_cast<unsigned>(threads)]),
      phases_(new Phase[threads]) {
    for (int thread = 1; thread < threads; ++thread) workers_.emplace_back([this, thread] { serve(thread); });
}

ThreadTeam::~ThreadTeam() {
    stopping_ = true;
    start_.wait();
    for (auto& worker : workers_) worker.join();
}

void ThreadTeam::run(const std::function<void(int)>& work) {
    work_ = &work;
    place_workers();
    start_.wait();
    work(0);
    finish_.wait();
    // Nobody shares out work between two runs, so every counter can start anew.
    for (unsigned phase = 0; phase < kPhases; ++phase) reset(phase);
}

// Keep the workers off the caller's processor. On a busy machine the system likes to wake them right there, and then
// threads that wait for each other take turns on one processor, a time slice each.
void ThreadTeam::place_workers() {
#if defined(__linux__)
    if (threads_ == 1 || static_cast<int>(processors_.size()) < threads_) return;
    const int here = sched_getcpu();
    if (here < 0 || here == placed_for_) return;
    placed_for_ = here;
    std::vector<int> others;
    for (const int processor : processors_)
        if (processor != here) others.push_back(processor);
    const bool one_each = others.size() == workers_.size();
    for (size_t worker = 0; worker < workers_.size(); ++worker) {
        cpu_set_t set;
        CPU_ZERO(&set);
        for (size_t i = 0; i < others.size(); ++i)
            if (!one_each || i == worker) CPU_SET(others[i], &set);
        pthread_setaffinity_np(workers_[worker].native_handle(), sizeof set, &set);
    }
#endif
}

void ThreadTeam::serve(int thread) {
    for (;;) {
        start_.wait();
        if (stopping_) return;
        (*work_)(thread);
        finish_.wait();
    }
}

void ThreadTeam::reset(unsigned phase) {
    const unsigned threads = static_cast<unsigned>(threads_);
    for (unsigned i = 0; i < threads; ++i) counters_[phase * threads + i].value.store(0, std::memory_order_relaxed);
}

void ThreadTeam::barrier(int thread) {
    // The counters two phases ahead were last used two phases ago, by threads that have all come here since.
    if (thread == 0) reset((phases_[0].value + 2) % kPhases);
    ++phases_[thread].value;
    inside_.wait();
}

}  // namespace sgrt
