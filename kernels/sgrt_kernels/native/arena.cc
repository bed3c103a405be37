#include "arena.h"

#include <sys/mman.h>
#include <unistd.h>

namespace sgrt {

namespace {
constexpr uintptr_t kHugePage = uintptr_t{2} << 20;

uintptr_t rounded_up(uintptr_t value, uintptr_t unit) { return (value + unit - 1) / unit * unit; }
}  // namespace

Arena::Arena(size_t bytes) {
    mapped_ = rounded_up(bytes, kHugePage) + kHugePage;
    void* mapping = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) return;
    mapping_ = mapping;
    data_ = reinterpret_cast<uint8_t*>(rounded_up(reinterpret_cast<uintptr_t>(mapping), kHugePage));
    advise_large_pages(data_, rounded_up(bytes, kHugePage));
}

Arena::~Arena() {
    if (mapping_ != nullptr) munmap(mapping_, mapped_);
}

void advise_large_pages(void* data, size_t bytes) {
#if defined(MADV_HUGEPAGE)
    const uintptr_t first = rounded_up(reinterpret_cast<uintptr_t>(data), kHugePage);
    const uintptr_t last = (reinterpret_cast<uintptr_t>(data) + bytes) / kHugePage * kHugePage;
    if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#else
    (void)data;
    (void)bytes;
#endif
}

namespace {

// Advise about the whole pages inside [data, data + bytes).
void advise_inside(const void* data, size_t bytes, int advice) {
    const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    const uintptr_t first = rounded_up(reinterpret_cast<uintptr_t>(data), page);
    const uintptr_t last = (reinterpret_cast<uintptr_t>(data) + bytes) / page * page;
    if (first < last) madvise(reinterpret_cast<void*>(first), last - first, advice);
}

}  // namespace

void advise_small_pages(void* data, size_t bytes) {
#if defined(MADV_NOHUGEPAGE)
    const uintptr_t first = reinterpret_cast<uintptr_t>(data) / kHugePage * kHugePage;
    const uintptr_t last = rounded_up(reinterpret_cast<uintptr_t>(data) + bytes, kHugePage);
    madvise(reinterpret_cast<void*>(first), last - first, MADV_NOHUGEPAGE);
#else
    (void)data;
    (void)bytes;
#endif
}

void drop_file_pages(const void* data, size_t bytes) { advise_inside(data, bytes, MADV_DONTNEED); }

}  // namespace sgrt
