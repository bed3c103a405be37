// A few threads that run one function together, meet at barriers and share out work by counters.
//
// The caller is thread 0. Waiting spins for a while and then sleeps, so an idle team costs nothing and a busy one does not
// pay for wake-ups between the phases of a step, nor between steps that follow one another.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace sgrt {

// Threads wait here until all have come; usable again at once.
class Barrier {
  public:
    // Waiting spins `spins` times, some tens of nanoseconds each, before it sleeps.
    Barrier(int threads, int spins) : threads_(threads), spins_(spins) {}
    void wait();

  private:
    const int threads_, spins_;
    alignas(64) std::atomic<int> arrived_{0};
    alignas(64) std::atomic<unsigned> generation_{0};
    std::atomic<int> sleepers_{0};
    std::mutex mutex_;
    std::condition_variable woken_;
};

class ThreadTeam {
  public:
    explicit ThreadTeam(int threads);
    ~ThreadTeam();
    ThreadTeam(const ThreadTeam&) = delete;
    ThreadTeam& operator=(const ThreadTeam&) = delete;

    int size() const { return threads_; }

    // Run `work(thread)` on every thread and return when all are done. Not to be nested.
    void run(const std::function<void(int)>& work);

    // Inside `run`: wait for the others. Every thread calls it equally often. It ends a phase.
    void barrier(int thread);

    // Inside `run`: a free share of this phase's `shares`, or kNone. Every thread has a run of neighbouring shares and
    // takes them in order, so that it reads memory as one stream; who is done early helps the others.
    static constexpr int kNone = -1;
    int claim(int thread, int shares) {
        Counter* const phase = &counters_[phases_[thread].value % kPhases * static_cast<unsigned>(threads_)];
        for (int i = 0; i < threads_; ++i) {
            const int owner = (thread + i) % threads_;
            const int first = first_share(owner, shares), end = first_share(owner + 1, shares);
            if (phase[owner].value.load(std::memory_order_relaxed) >= end - first) continue;
            const int share = first + phase[owner].value.fetch_add(1, std::memory_order_relaxed);
            if (share < end) return share;
        }
        return kNone;
    }

  private:
    static constexpr unsigned kPhases = 4;
    struct alignas(64) Counter {
        std::atomic<int> value{0};
    };
    struct alignas(64) Phase {
        unsigned value = 0;
    };

    int first_share(int thread, int shares) const {
        return static_cast<int>(static_cast<int64_t>(shares) * thread / threads_);
    }
    void reset(unsigned phase);
    void serve(int thread);
    void place_workers();

    const int threads_;
    std::vector<int> processors_;  // that this process may use
    int placed_for_ = -1;          // the caller's processor when the workers were last placed; -1: never
    Barrier start_, inside_, finish_;
    std::unique_ptr<Counter[]> counters_;  // [kPhases][threads]
    std::unique_ptr<Phase[]> phases_;
    const std::function<void(int)>* work_ = nullptr;
    bool stopping_ = false;
    std::vector<std::thread> workers_;
};

}  // namespace sgrt
