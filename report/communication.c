/* communication.c: the collectives of a step (see communication.h). */
#include "report/communication.h"

cJSON *communication_json(const Plan *plan, const Run *run, int64_t step)
{
    bool nccl = plan->config.comm_kind == COMM_NCCL;
    const StepRecord *rank0 = &run_records(plan, run, 0)[step];
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "algorithm",
                            nccl ? "nccl" : comm_algorithm_name(plan->config.algorithm));
    cJSON_AddNumberToObject(object, "all_reduces", (double)rank0->collectives);
    if (nccl)
        cJSON_AddNullToObject(object, "steps");
    else
        cJSON_AddNumberToObject(object, "steps", (double)rank0->communication_steps);
    cJSON *sent = cJSON_AddArrayToObject(object, "sent_bytes");
    cJSON *received = cJSON_AddArrayToObject(object, "received_bytes");
    for (int rank = 0; rank < run->recorded; rank++) {
        const StepRecord *record = &run_records(plan, run, rank)[step];
        cJSON_AddItemToArray(sent,
                             cJSON_CreateNumber((double)record->sent[BYTES_PARAMETER_GRADIENTS]));
        cJSON_AddItemToArray(
            received, cJSON_CreateNumber((double)record->received[BYTES_PARAMETER_GRADIENTS]));
    }
    return object;
}

bool communication_sums_in_order(const Config *config, int devices)
{
    if (devices <= 2)
        return true;
    return config->comm_kind != COMM_NCCL &&
           (config->algorithm == COMM_DIRECT || config->algorithm == COMM_NAIVE);
}
