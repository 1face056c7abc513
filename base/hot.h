/* hot.h: HOT before a function with a hot loop.
 *
 * The compiler then makes one version of it for each of these instruction sets, and the dynamic
 * linker picks one: a binary built in the lab runs on every x86-64. The arithmetic is the same in
 * both, since -ffp-contract=off forbids fused operations that were not asked for. (AVX-512 was
 * tried: these loops wait for memory, and it made no difference.)
 *
 * ThreadSanitizer's runtime is not ready yet when the linker picks, so sanitizer builds go without.
 */
#ifndef TRAINER_HOT_H
#define TRAINER_HOT_H

#if defined(__x86_64__) && !defined(TRAINER_SANITIZED)
#define HOT __attribute__((target_clones("default", "avx2")))
#else
#define HOT
#endif

#endif
