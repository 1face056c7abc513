/* layer_table.h: how fast a linear layer's three operations were measured to be, by the layer's
 * shape. A matrix product's speed depends on all three of its sizes: one with a thin matrix can be
 * half as fast as a square one of as many FLOP.
 */
#ifndef TRAINER_DEVICE_LAYER_TABLE_H
#define TRAINER_DEVICE_LAYER_TABLE_H

#define LAYER_MOST_SIZES 8
#define LAYER_MOST_RATES (LAYER_MOST_SIZES * LAYER_MOST_SIZES * LAYER_MOST_SIZES)

typedef enum LayerWork {
    LAYER_FORWARD,         /* with bias and ReLU */
    LAYER_BACKWARD_PARAMS, /* with the bias's sums */
    LAYER_BACKWARD_INPUT,  /* with ReLU's mask */
    LAYER_WORKS,
} LayerWork;

typedef struct LayerTable {
    int sizes;                                        /* 0: there is none */
    double size[LAYER_MOST_SIZES];                    /* ascending: of rows, inputs and outputs */
    double flop_per_s[LAYER_WORKS][LAYER_MOST_RATES]; /* [rows, inputs, outputs] */
} LayerTable;

/* The rate, in FLOP of the matrix product per second, at which a layer of that shape does the work:
 * interpolated between the logarithms of the sizes and the rates, and flat beyond the ends. */
double layer_table_at(const LayerTable *table, LayerWork work, double rows, double in, double out);

#endif
