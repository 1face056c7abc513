/* cublas.cpp: the calls of libcublas that the program makes, by OpenBLAS.
 *
 * A handle must have been given a stream and then a workspace that no other stream uses: otherwise
 * the real one repeats its results from run to run only by luck, which no test would notice.
 */
#include "softcuda.h"

#include <algorithm>
#include <cblas.h>
#include <cstring>
#include <cublas_v2.h>
#include <memory>

using namespace softcuda;

namespace
{

struct Handle {
    int gpu;
    cudaStream_t stream = nullptr;
    char *workspace = nullptr;
    std::size_t workspace_bytes = 0;
};

std::vector<Handle *> handles;

Handle *handle_of(const char *call, cublasHandle_t handle)
{
    auto found = std::find(handles.begin(), handles.end(), (Handle *)handle);
    if (found == handles.end())
        violation("%s gets a handle that is none, or is destroyed", call);
    return *found;
}

template <class Body>
cublasStatus_t cublas_call(const char *name, Body body,
                           cublasStatus_t usual = CUBLAS_STATUS_EXECUTION_FAILED)
{
    Call call(name);
    if (call.refused != cudaSuccess)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (call.injected || call.any_code)
        return call.any_code ? usual : (cublasStatus_t)call.injected;
    return body();
}

/* One matrix: column by column, `stride` numbers from one to the next. */
struct Matrix {
    const void *start;
    int rows, columns, stride;

    std::size_t bytes() const
    {
        return rows == 0 || columns == 0
                   ? 0
                   : sizeof(float) *
                         ((std::size_t)(columns - 1) * (std::size_t)stride + (std::size_t)rows);
    }
    bool overlaps(const void *other, std::size_t other_bytes) const
    {
        return (const char *)start < (const char *)other + other_bytes &&
               (const char *)other < (const char *)start + bytes();
    }
};

/* Its workspace holds anything at all during a product. */
void spoil(const Handle &handle)
{
    std::size_t bytes = std::min(handle.workspace_bytes, (std::size_t)4096);
    memset(handle.workspace, 0xff, bytes);
    memset(handle.workspace + handle.workspace_bytes - bytes, 0xff, bytes);
}

} // namespace

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle)
{
    return cublas_call(
        "cublasCreate",
        [=] {
            auto *made = new Handle;
            made->gpu = current_gpu;
            handles.push_back(made);
            *handle = (cublasHandle_t)made;
            return CUBLAS_STATUS_SUCCESS;
        },
        CUBLAS_STATUS_NOT_INITIALIZED);
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle)
{
    return cublas_call("cublasDestroy", [=] {
        Handle *h = handle_of("cublasDestroy", handle);
        handles.erase(std::find(handles.begin(), handles.end(), h));
        delete h;
        return CUBLAS_STATUS_SUCCESS;
    });
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream)
{
    return cublas_call("cublasSetStream", [=] {
        Handle *h = handle_of("cublasSetStream", handle);
        if (stream_of("cublasSetStream", stream)->gpu != h->gpu)
            violation("cublasSetStream: a stream of GPU %d for a handle of GPU %d",
                      stream_of("cublasSetStream", stream)->gpu, h->gpu);
        h->stream = stream;
        h->workspace = nullptr; /* back to the one that all share */
        return CUBLAS_STATUS_SUCCESS;
    });
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t bytes)
{
    return cublas_call("cublasSetWorkspace", [=] {
        Handle *h = handle_of("cublasSetWorkspace", handle);
        check_memory("cublasSetWorkspace", "workspace", h->gpu, workspace, bytes);
        if ((std::uintptr_t)workspace % 256 != 0)
            return CUBLAS_STATUS_INVALID_VALUE;
        for (Handle *other : handles)
            if (other != h && other->workspace == workspace && other->stream != h->stream)
                violation("cublasSetWorkspace: one workspace for two streams");
        h->workspace = (char *)workspace;
        h->workspace_bytes = bytes;
        forget_contents(workspace, bytes);
        return CUBLAS_STATUS_SUCCESS;
    });
}

/* c [m, n] = alpha op(a) [m, k] op(b) [k, n] + beta c, column by column */
cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t a_op, cublasOperation_t b_op,
                            int m, int n, int k, const void *alpha, const void *a,
                            cudaDataType a_type, int a_stride, const void *b, cudaDataType b_type,
                            int b_stride, const void *beta, void *c, cudaDataType c_type,
                            int c_stride, cublasComputeType_t compute, cublasGemmAlgo_t)
{
    return cublas_call("cublasGemmEx", [=] {
        Handle *h = handle_of("cublasGemmEx", handle);
        bool known = (a_op == CUBLAS_OP_N || a_op == CUBLAS_OP_T) &&
                     (b_op == CUBLAS_OP_N || b_op == CUBLAS_OP_T) && a_type == CUDA_R_32F &&
                     b_type == CUDA_R_32F && c_type == CUDA_R_32F &&
                     (compute == CUBLAS_COMPUTE_32F || compute == CUBLAS_COMPUTE_32F_PEDANTIC ||
                      compute == CUBLAS_COMPUTE_32F_FAST_TF32);
        if (!known)
            violation("cublasGemmEx: only products of floats are known here");
        if (!h->workspace)
            violation("cublasGemmEx: the handle has no workspace of its own "
                      "(cublasSetWorkspace after cublasSetStream)");
        bool a_turned = a_op == CUBLAS_OP_T, b_turned = b_op == CUBLAS_OP_T;
        Matrix A = {a, a_turned ? k : m, a_turned ? m : k, a_stride};
        Matrix B = {b, b_turned ? n : k, b_turned ? k : n, b_stride};
        Matrix C = {c, m, n, c_stride};
        for (const Matrix &matrix : {A, B, C})
            if (matrix.rows < 0 || matrix.columns < 0 || matrix.stride < std::max(1, matrix.rows))
                return CUBLAS_STATUS_INVALID_VALUE;
        check_memory("cublasGemmEx", "first factor", h->gpu, a, A.bytes());
        check_memory("cublasGemmEx", "second factor", h->gpu, b, B.bytes());
        check_memory("cublasGemmEx", "product", h->gpu, c, C.bytes());
        if (C.overlaps(a, A.bytes()) || C.overlaps(b, B.bytes()))
            violation("cublasGemmEx: the product overlaps a factor");

        float alpha_value = *(const float *)alpha, beta_value = *(const float *)beta;
        Handle now = *h;
        queue(stream_of("cublasGemmEx", h->stream),
              {"cublasGemmEx on GPU " + std::to_string(h->gpu), h->gpu, [=] {
                   if (m > 0 && n > 0) {
                       spoil(now);
                       cblas_sgemm(CblasColMajor, a_turned ? CblasTrans : CblasNoTrans,
                                   b_turned ? CblasTrans : CblasNoTrans, m, n, k, alpha_value,
                                   (const float *)a, a_stride, (const float *)b, b_stride,
                                   beta_value, (float *)c, c_stride);
                   }
                   return true;
               }});
        return CUBLAS_STATUS_SUCCESS;
    });
}

const char *cublasGetStatusString(cublasStatus_t status)
{
    switch (status) {
    case CUBLAS_STATUS_SUCCESS:
        return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
        return "the library was not initialized";
    case CUBLAS_STATUS_ALLOC_FAILED:
        return "the resource allocation failed";
    case CUBLAS_STATUS_INVALID_VALUE:
        return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_ARCH_MISMATCH:
        return "the function requires a feature absent from the device architecture";
    case CUBLAS_STATUS_EXECUTION_FAILED:
        return "the function failed to launch on the GPU";
    default:
        return "an error";
    }
}

} // extern "C"
