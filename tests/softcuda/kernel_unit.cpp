/* kernel_unit.cpp: one .cu file's kernels, compiled for the CPU. The Makefile says which
 * (KERNEL_SOURCE), and makes a list of the names in it (KERNEL_LIST: "KERNEL(add)", ...).
 */
#include "shim.h"

#include KERNEL_SOURCE

#include <tuple>
#include <type_traits>
#include <utility>

namespace
{

template <class T> void note_pointer(std::vector<const void *> &pointers, T argument)
{
    if constexpr (std::is_pointer_v<T>)
        pointers.push_back((const void *)argument);
}

/* nvcc's code hands over an array of pointers to the arguments. */
template <class... A, std::size_t... I>
softcuda::BoundKernel bind_kernel(void (*kernel)(A...), void **arguments, std::index_sequence<I...>)
{
    std::tuple<A...> values(*(A *)arguments[I]...);
    softcuda::BoundKernel bound;
    (note_pointer(bound.arguments, std::get<I>(values)), ...);
    bound.thread = [kernel, values] { std::apply(kernel, values); };
    return bound;
}

template <class... A> bool add_kernel(void (*kernel)(A...))
{
    softcuda::register_kernel((void *)kernel, [kernel](void **arguments) {
        return bind_kernel(kernel, arguments, std::index_sequence_for<A...>());
    });
    return true;
}

#define KERNEL(name) [[maybe_unused]] const bool registered_##name = add_kernel(::name);
#include KERNEL_LIST

} // namespace
