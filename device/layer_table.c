/* layer_table.c: interpolation in three sizes (see layer_table.h). */
#include "device/layer_table.h"

#include <math.h>

/* A size lies between `low` and the next one, at `share` of the way. */
typedef struct Place {
    int low;
    double share;
} Place;

static Place place_of(const LayerTable *table, double size)
{
    int last = table->sizes - 1;
    if (last == 0 || size <= table->size[0])
        return (Place){.low = 0, .share = 0};
    if (size >= table->size[last])
        return (Place){.low = last - 1, .share = 1};
    int low = 0;
    while (size >= table->size[low + 1])
        low++;
    double from = table->size[low], to = table->size[low + 1];
    return (Place){.low = low, .share = log(size / from) / log(to / from)};
}

double layer_table_at(const LayerTable *table, LayerWork work, double rows, double in, double out)
{
    Place place[3] = {place_of(table, rows), place_of(table, in), place_of(table, out)};
    double logarithm = 0;
    for (int corner = 0; corner < 8; corner++) {
        double weight = 1;
        int at = 0;
        for (int i = 0; i < 3; i++) {
            int high = corner >> i & 1;
            weight *= high ? place[i].share : 1 - place[i].share;
            at = at * table->sizes + place[i].low + high;
        }
        if (weight > 0)
            logarithm += weight * log(table->flop_per_s[work][at]);
    }
    return exp(logarithm);
}
