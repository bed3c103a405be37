// Memory that grows to the largest request and stays: a step allocates nothing once it is warm.
#pragma once

#include <cstdlib>
#include <cstring>
#include <new>

namespace sgrt {

class Workspace {
  public:
    Workspace() = default;
    ~Workspace() { std::free(memory_); }
    Workspace(const Workspace&) = delete;
    Workspace& operator=(const Workspace&) = delete;

    // At least `bytes`, aligned to 64; what was there before is lost when it grows.
    uint8_t* bytes(size_t wanted) {
        if (wanted > size_) {
            std::free(memory_);
            const size_t rounded = (wanted + wanted / 4 + 4095) / 4096 * 4096;
            memory_ = std::aligned_alloc(4096, rounded);
            size_ = memory_ == nullptr ? 0 : rounded;
            if (memory_ == nullptr) throw std::bad_alloc();
        }
        return static_cast<uint8_t*>(memory_);
    }
    float* floats(size_t wanted) { return reinterpret_cast<float*>(bytes(wanted * sizeof(float))); }

  private:
    void* memory_ = nullptr;
    size_t size_ = 0;
};

}  // namespace sgrt
