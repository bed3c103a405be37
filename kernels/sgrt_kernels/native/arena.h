// Memory for weights on 2 MiB pages: a cold read over 4 KiB pages pays for every page walk.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sgrt {

class Arena {
  public:
    // Address space for `bytes`; memory is taken as it is touched. `valid()` is false where the system refuses.
    explicit Arena(size_t bytes);
    ~Arena();
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;

    bool valid() const { return data_ != nullptr; }
    uint8_t* data() const { return data_; }

  private:
    void* mapping_ = nullptr;
    size_t mapped_ = 0;
    uint8_t* data_ = nullptr;
};

// Let the system take back the memory of a read-only mapped file's pages inside [data, data + bytes).
void drop_file_pages(const void* data, size_t bytes);

// Ask for 2 MiB pages where memory inside [data, data + bytes) is touched for the first time.
void advise_large_pages(void* data, size_t bytes);

// Ask for ordinary pages wherever a 2 MiB page would hold a part of [data, data + bytes).
void advise_small_pages(void* data, size_t bytes);

}  // namespace sgrt
