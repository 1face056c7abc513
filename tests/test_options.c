/* test_options.c: what the command line means: defaults, good values, and a sentence for every bad
 * one. That the program then ends with status 2 is for options.sh to test.
 */
#include "options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* Splits a line at its blanks and parses the words. The options stay valid until the next call. */
static Error parse(const char *line, Options *options)
{
    static char text[1024];
    char *argv[32] = {"trainer"};
    int argc = 1;
    bool done;
    snprintf(text, sizeof text, "%s", line);
    char *rest;
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        argv[argc++] = word;
    argv[argc] = NULL;
    Error error = options_parse(argc, argv, options, &done);
    assert_false(done);
    return error;
}

static void test_defaults(void **state)
{
    (void)state;
    Options options;
    assert_null(parse("", &options));
    assert_int_equal(options.mode, MODE_COMPARE);
    assert_int_equal(options.device_counts, 0);
    assert_int_equal(options.device, CHOICE_AUTO);
    assert_int_equal(options.comm, COMM_CHOICE_AUTO);
    assert_int_equal(options.layers, 3);
    const int widths[] = {784, 512, 512, 10};
    assert_memory_equal(options.widths, widths, sizeof widths);
    assert_int_equal(options.batch, 256);
    assert_int_equal(options.epochs, 0);
    assert_int_equal(options.steps, 60);
    assert_int_equal(options.optimizer.kind, OPTIMIZER_ADAMW);
    assert_true(options.optimizer.lr == 0.001);
    assert_true(options.optimizer.weight_decay == 0.01);
    assert_int_equal(options.seed, 0);
    assert_string_equal(options.data, "fashion-mnist");
    assert_true(options.bucket_mb == 25);
    assert_false(options.bucket_given);
    assert_true(options.overlap);
    assert_true(options.timeout_s == 30);
    assert_int_equal(options.depth, DEPTH_BEGINNER);
    assert_null(options.json);
    assert_null(options.replay);
    assert_false(options.quiet);
    assert_string_equal(options.command_line, "trainer");
    options_free(&options);

    assert_null(parse("--mode=ddp", &options));
    assert_int_equal(options.epochs, 3);
    assert_int_equal(options.steps, 0);
    options_free(&options);

    assert_null(parse("--guess=-20.5%", &options));
    assert_true(options.guess_given && options.guess == -20.5);
    options_free(&options);

    assert_null(parse("--sweep-buckets=25,0,1.5", &options));
    assert_int_equal(options.mode, MODE_LADDER);
    assert_int_equal(options.steps, 60);
    assert_int_equal(options.sweep_sizes, 3);
    assert_true(options.sweep_mb[0] == 0 && options.sweep_mb[1] == 1.5 &&
                options.sweep_mb[2] == 25);
    options_free(&options);

    assert_null(parse("--optimizer=sgd", &options));
    assert_true(options.optimizer.lr == 0.1);
    assert_true(options.optimizer.momentum == 0.9);
    assert_true(options.optimizer.weight_decay == 0);
    options_free(&options);
}

static void test_good_values(void **state)
{
    (void)state;
    Options options;
    assert_null(parse("--mode=ddp --devices=3 --device=cpu --comm=shm --layers=784,32,16,10 "
                      "--batch=48 --steps=7 --warmup=2 --optimizer=sgd --lr=0.25 --momentum=0.5 "
                      "--weight-decay=1e-4 --seed=4294967295 --data=synthetic --samples=600 "
                      "--bucket-mb=0.5 --overlap=off --timeout=2.5 --depth=researcher --json=- "
                      "--log-losses --quiet",
                      &options));
    assert_int_equal(options.mode, MODE_DDP);
    assert_int_equal(options.device_counts, 1);
    assert_int_equal(options.devices[0], 3);
    assert_int_equal(options.device, CHOICE_CPU);
    assert_int_equal(options.comm, COMM_CHOICE_SHM);
    assert_int_equal(options.layers, 3);
    assert_int_equal(options.widths[2], 16);
    assert_int_equal(options.batch, 48);
    assert_int_equal(options.steps, 7);
    assert_int_equal(options.epochs, 0);
    assert_int_equal(options.warmup, 2);
    assert_int_equal(options.optimizer.kind, OPTIMIZER_SGD);
    assert_true(options.optimizer.lr == 0.25);
    assert_true(options.optimizer.momentum == 0.5);
    assert_true(options.optimizer.weight_decay == 1e-4);
    assert_true(options.seed == 4294967295u);
    assert_string_equal(options.data, "synthetic");
    assert_int_equal(options.samples, 600);
    assert_true(options.bucket_mb == 0.5);
    assert_true(options.bucket_given);
    assert_false(options.overlap);
    assert_true(options.timeout_s == 2.5);
    assert_int_equal(options.depth, DEPTH_RESEARCHER);
    assert_string_equal(options.json, "-");
    assert_true(options.log_losses);
    assert_true(options.quiet);
    options_free(&options);

    /* the value may be the next word, and the last of two counts */
    assert_null(parse("--mode dp --devices 4 --batch 8 --batch 12", &options));
    assert_int_equal(options.mode, MODE_DP);
    assert_int_equal(options.devices[0], 4);
    assert_int_equal(options.batch, 12);
    options_free(&options);

    assert_null(parse("--devices=4,1,2", &options));
    const int devices[] = {1, 2, 4};
    assert_int_equal(options.device_counts, 3);
    assert_memory_equal(options.devices, devices, sizeof devices);
    options_free(&options);

    assert_null(parse("--mode=ddp --save=new.safetensors --load old.safetensors --wrapped-keys "
                      "--weights-only --strict",
                      &options));
    assert_string_equal(options.save, "new.safetensors");
    assert_string_equal(options.load, "old.safetensors");
    assert_null(options.resume);
    assert_true(options.wrapped_keys && options.weights_only && options.strict);
    options_free(&options);

    assert_null(parse("--mode=single --resume=old.safetensors --batch=32", &options));
    assert_string_equal(options.resume, "old.safetensors");
    assert_true(options.typed.batch);
    assert_false(options.typed.seed || options.typed.layers || options.typed.optimizer);
    assert_false(options.wrapped_keys || options.weights_only || options.strict);
    options_free(&options);

    assert_null(parse("--replay=old.json --depth=developer", &options));
    assert_string_equal(options.replay, "old.json");
    options_free(&options);
}

/* A command line and all that is said about it. */
typedef struct Bad {
    const char *line, *says;
} Bad;

static void expect_bad(const Bad *bad, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        Options options;
        Error error = parse(bad[i].line, &options);
        if (!error)
            fail_msg("%s is accepted", bad[i].line);
        assert_string_equal(error, bad[i].says);
        assert_null(strchr(error, '\n'));
        options_free(&options);
    }
}

#define EXPECT_BAD(list) expect_bad(list, sizeof(list) / sizeof *(list))

static void test_bad_values(void **state)
{
    (void)state;
    static const Bad bad[] = {
        {"--mode=fast",
         "--mode=fast: choose compare, single, dp, ddp, hello, bench, ladder or calibrate"},
        {"--devices=0", "--devices=0: must lie between 1 and 16384"},
        {"--devices=16385", "--devices=16385: must lie between 1 and 16384"},
        {"--devices=257", "--devices=257: at most 256; more only as virtual devices, with "
                          "--profile=NAME"},
        {"--devices=1,20000", "--devices=1,20000: 20000 must lie between 1 and 16384"},
        {"--devices=2,", "--devices=2,: whole numbers with commas between them, such as 1,2,4"},
        {"--devices=2;4", "--devices=2;4: whole numbers with commas between them, such as 1,2,4"},
        {"--devices=-2", "--devices=-2: whole numbers with commas between them, such as 1,2,4"},
        {"--devices=2,4,2", "--devices: 2 is there twice"},
        {"--devices=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17",
         "--devices=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17: at most 16 numbers"},
        {"--device=rocket", "--device=rocket: choose auto, cpu or cuda"},
        {"--comm=mpi", "--comm=mpi: choose auto, shm or nccl"},
        {"--replicate=ring", "--replicate=ring: choose auto, star or nccl"},
        {"--precision=fp16", "--precision=fp16: choose fp32 or tf32"},
        {"--layers=784", "--layers=784: at least two widths, pixels and classes, such as 784,10"},
        {"--layers=784,0,10", "--layers=784,0,10: 0 must lie between 1 and 1048576"},
        {"--layers=784,x,10",
         "--layers=784,x,10: whole numbers with commas between them, such as 1,2,4"},
        {"--batch=0", "--batch=0: must lie between 1 and 1048576"},
        {"--batch=1e3", "--batch=1e3: not a whole number"},
        {"--batch=99999999999999999999",
         "--batch=99999999999999999999: must lie between 1 and 1048576"},
        {"--epochs=0", "--epochs=0: must lie between 1 and 100000"},
        {"--epochs=one", "--epochs=one: not a whole number"},
        {"--epochs=", "--epochs=: not a whole number"},
        {"--epochs=-", "--epochs=-: not a whole number"},
        {"--epochs=+3", "--epochs=+3: not a whole number"},
        {"--steps=-3", "--steps=-3: must lie between 1 and 10000000"},
        {"--warmup=-1", "--warmup=-1: must lie between 0 and 1000000"},
        {"--optimizer=lion", "--optimizer=lion: choose sgd, adam or adamw"},
        {"--lr=-0.1", "--lr=-0.1: must lie between 0 and 1000"},
        {"--lr=nan", "--lr=nan: not a number"},
        {"--lr=inf", "--lr=inf: not a number"},
        {"--lr=0.1x", "--lr=0.1x: not a number"},
        {"--lr=0x1", "--lr=0x1: not a number"},
        {"--lr=", "--lr=: not a number"},
        {"--lr=1e999", "--lr=1e999: must lie between 0 and 1000"},
        {"--guess=%", "--guess=%: not a number"},
        {"--guess=2%%", "--guess=2%: not a number"},
        {"--guess=many%", "--guess=many: not a number"},
        {"--sweep-buckets=", "--sweep-buckets=: numbers with commas between them, such as 0,1,5.5"},
        {"--sweep-buckets=1;2",
         "--sweep-buckets=1;2: numbers with commas between them, such as 0,1,5.5"},
        {"--sweep-buckets=1,-1e3", "--sweep-buckets=1,-1e3: -1e3 must lie between 0 and 100000"},
        {"--sizes=big", "--sizes=big: one size or two with a comma between them, such as 4K,64M"},
        {"--sizes=4K,", "--sizes=4K,: one size or two with a comma between them, such as 4K,64M"},
        {"--sizes=4Kb", "--sizes=4Kb: one size or two with a comma between them, such as 4K,64M"},
        {"--sizes=1,2,3",
         "--sizes=1,2,3: one size or two with a comma between them, such as 4K,64M"},
        {"--sizes=64M,4K", "--sizes=64M,4K: the smaller size comes first"},
        {"--sizes=3", "--sizes=3: must lie between 4 and 4294967296 bytes"},
        {"--sizes=99999999999999999999G",
         "--sizes=99999999999999999999G: must lie between 4 and 4294967296 bytes"},
        {"--optimizer=sgd --momentum=1",
         "--momentum=1: must be less than 1, or nothing is ever forgotten"},
        {"--weight-decay=-1", "--weight-decay=-1: must lie between 0 and 1000"},
        {"--seed=-1", "--seed=-1: must lie between 0 and 4294967295"},
        {"--seed=4294967296", "--seed=4294967296: must lie between 0 and 4294967295"},
        {"--samples=0", "--samples=0: must lie between 1 and 100000000"},
        {"--bucket-mb=-1", "--bucket-mb=-1: must lie between 0 and 100000"},
        {"--overlap=maybe", "--overlap=maybe: choose on or off"},
        {"--timeout=0", "--timeout=0: at least 0.1 seconds"},
        {"--timeout=-5", "--timeout=-5: must lie between 0 and 1e+06"},
        {"--depth=expert", "--depth=expert: choose beginner, developer or researcher"},
        {"--data=", "--data=: give fashion-mnist, synthetic or a directory"},
        {"--json=", "--json=: give a file, or - for standard output"},
        {"--replay=", "--replay=: give a file that --json=FILE has written"},
        {"--slow-motion=0.5", "--slow-motion=0.5: must lie between 1 and 1e+06"},
        {"--save=", "--save=: give a file, such as model.safetensors"},
        {"--load=", "--load=: give a file, such as model.safetensors"},
        {"--resume=", "--resume=: give a file, such as model.safetensors"},
        {"--devices=", "--devices=: whole numbers with commas between them, such as 1,2,4"},
        {"--lr", "--lr: needs a value: --lr=X"},
        {"--lr --quiet", "--lr: needs a value: --lr=X"},
        {"--quiet=yes", "--quiet: takes no value"},
    };
    EXPECT_BAD(bad);
}

static void test_slips_are_recognised(void **state)
{
    (void)state;
    static const Bad bad[] = {
        {"--device=2", "--device=2: did you mean --devices=2? (--device is auto, cpu or cuda)"},
        {"--device=cpuu", "--device=cpuu: did you mean --device=cpu? (choose auto, cpu or cuda)"},
        {"--device=1,2", "--device=1,2: did you mean --devices=1,2? (--device is auto, cpu or "
                         "cuda)"},
        {"--mode=dpp", "--mode=dpp: did you mean --mode=dp or --mode=ddp? (choose compare, single, "
                       "dp, ddp, hello, bench, ladder or calibrate)"},
        {"--mode=DDP", "--mode=DDP: did you mean --mode=ddp? (choose compare, single, dp, ddp, "
                       "hello, bench, ladder or calibrate)"},
        {"--mode=DataParallel", "--mode=DataParallel: did you mean --mode=dp? (choose compare, "
                                "single, dp, ddp, hello, bench, ladder or calibrate)"},
        {"--device=gpu", "--device=gpu: did you mean --device=cuda? (choose auto, cpu or cuda)"},
        {"--overlap=no", "--overlap=no: did you mean --overlap=off? (choose on or off)"},
        {"--optimizer=adma",
         "--optimizer=adma: did you mean --optimizer=adam? (choose sgd, adam or adamw)"},
        {"--qiet", "--qiet: no such option; did you mean --quiet?"},
        {"--epoch=3", "--epoch: no such option; did you mean --epochs=3?"},
        {"--opt=sgd", "--opt: no such option; did you mean --optimizer=sgd or --op=sgd?"},
        {"--d=3", "--d: no such option; --help lists them"},
        {"--dev=2", "--dev: no such option; did you mean --devices=2 or --device=2?"},
        {"--weight_decay=0", "--weight_decay: no such option; did you mean --weight-decay=0?"},
        {"--gpus=2", "--gpus: no such option; did you mean --devices=2?"},
        {"--batch-size 8", "--batch-size: no such option; did you mean --batch?"},
        {"--no-overlap", "--no-overlap: no such option; did you mean --overlap=off?"},
        {"--colour=red", "--colour: no such option; --help lists them"},
        {"--=3", "--=3: options begin with two dashes; --help lists them"},
        {"ddp", "ddp: did you mean --mode=ddp?"},
        {"-h", "-h: did you mean --help?"},
        {"-mode=ddp", "-mode=ddp: did you mean --mode=ddp?"},
        {"batch=64", "batch=64: did you mean --batch=64?"},
        {"-x", "-x: options begin with two dashes; --help lists them"},
        {"now", "\"now\": not an option; --help lists them"},
        {"--devices 2 4", "\"4\": not an option; --help lists them"},
        {"--", "--: options begin with two dashes; --help lists them"},
    };
    EXPECT_BAD(bad);
}

static void test_options_that_do_not_go_together(void **state)
{
    (void)state;
    static const Bad bad[] = {
        {"--epochs=2 --steps=10",
         "--epochs and --steps both say how long to train: give one of them"},
        {"--momentum=0.5",
         "--momentum belongs to --optimizer=sgd; adamw has its own (0.9 and 0.999)"},
        {"--sizes=4K", "--sizes belongs to --mode=bench"},
        {"--mode=bench --epochs=2",
         "--mode=bench has no epochs: --steps=N says how often each size is measured"},
        {"--mode=bench --log-losses --json=x",
         "--log-losses is about training: --mode=bench has no losses"},
        {"--mode=bench --op=max", "--op and --ordered belong to --mode=hello"},
        {"--mode=ddp --guess=3",
         "--guess belongs to --mode=hello and to compare: what will come out?"},
        {"--mode=ladder --overlap=off",
         "--overlap=off belongs to --mode=ddp: the ladder has rungs of both kinds"},
        {"--mode=hello --guess=3%", "--guess: rank 0 will hold a number, no per cent"},
        {"--guess=-100%", "--guess=-100: by how many per cent DDP does more steps per second than "
                          "DP; more than -100, at most 10000"},
        {"--mode=bench --save=x", "--save is for one way of training: give --mode=single, dp or "
                                  "ddp"},
        {"--mode=bench --algorithm=ring --collective=broadcast",
         "--algorithm is how an all_reduce is done: --collective=broadcast has one way"},
        {"--mode=dp --algorithm=ring",
         "--algorithm is how DDP's ranks add up their gradients: --mode=dp has no ranks"},
        {"--mode=hello --collective=broadcast --algorithm=tree",
         "--algorithm is how an all_reduce is done: --collective=broadcast has one way"},
        {"--comm=nccl --algorithm=naive",
         "--algorithm=naive: NCCL chooses its algorithms by itself; give --comm=shm for one of "
         "ours"},
        {"--replay=old.json --quiet",
         "--replay prints an old run and runs nothing: only --depth and --slow-motion go with it"},
        {"--replay=old.json --slow-motion=3 --depth=developer",
         "--slow-motion with --replay plays a step and prints no tables: leave out --depth"},
        {"--mode=hello --slow-motion=3",
         "--slow-motion plays a step of training, and here is none: leave it out"},
        {"--mode=dp --describe --slow-motion=3",
         "--slow-motion plays a step of training, and here is none: leave it out"},
        {"--steps=3 --replay=old.json",
         "--replay prints an old run and runs nothing: only --depth and --slow-motion go with it"},
        {"--data=fashion-mnist --samples=5", "--samples belongs to --data=synthetic"},
        {"--mode=ddp --devices=2,4",
         "--devices: a list is for --mode=compare; --mode=ddp takes one number"},
        {"--mode=single --devices=2",
         "--mode=single is training on one device; --devices=2 needs --mode=dp or --mode=ddp"},
        {"--overlap=off", "--overlap=off belongs to --mode=ddp: compare runs DDP both ways"},
        {"--devices=1", "--devices=1: comparing needs two devices or more; to train on one: "
                        "--mode=single"},
        {"--log-losses", "--log-losses writes them into the JSON: give --json=FILE, too"},
        {"--save=x", "--save is for one way of training: give --mode=single, dp or ddp"},
        {"--mode=hello --load=x", "--load is for one way of training: give --mode=single, dp or "
                                  "ddp"},
        {"--resume=x", "--resume is for one way of training: give --mode=single, dp or ddp"},
        {"--mode=dp --load=x --resume=y",
         "--load begins a new run with a file's weights, --resume goes on with the run that was "
         "saved: give one of them"},
        {"--mode=dp --describe --save=x",
         "--describe trains nothing: leave out --save, --load and --resume"},
        {"--mode=dp --show-sampler --load=x",
         "--show-sampler trains nothing: leave out --save, --load and --resume"},
        {"--mode=dp --load=x --weights-only",
         "--weights-only is about what is saved: give --save=FILE, too"},
        {"--mode=dp --save=x --strict", "--strict is about what is loaded: give --load=FILE, too"},
        {"--mode=dp --load=x --wrapped-keys",
         "--wrapped-keys is about what is saved, or loaded with --strict: give --save=FILE, too"},
        {"--comm=nccl --device=cpu", "--comm=nccl needs GPUs: leave out --device=cpu"},
        {"--replicate=nccl --device=cpu", "--replicate=nccl needs GPUs: leave out --device=cpu"},
        {"--device=cpu --precision=tf32", "--precision=tf32 needs GPUs: leave out --device=cpu"},
#ifndef TRAINER_CUDA
        {"--device=cuda", "--device=cuda: this trainer was built without CUDA; `make` says what it "
                          "needs"},
        {"--precision=tf32", "--precision=tf32: this trainer was built without CUDA; `make` says "
                             "what it needs"},
#endif
    };
    EXPECT_BAD(bad);
}

/* Whatever is typed, what is said about it stays on one line and of a readable length. */
static void test_odd_text_is_shown_on_one_line(void **state)
{
    (void)state;
    static char line_break[] = "--mode=a\nb\033[1m", name[] = "--\n=1", word[] = "a\nb";
    static char overlong[5000] = "--mode=";
    memset(overlong + strlen(overlong), 'x', sizeof overlong - strlen(overlong) - 1);
    char *const words[] = {line_break, name, word, overlong};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        Options options;
        bool done;
        char *argv[] = {"trainer", words[i], NULL};
        Error error = options_parse(2, argv, &options, &done);
        assert_non_null(error);
        assert_null(strpbrk(error, "\n\033"));
        assert_true(strlen(error) < 400);
        if (words[i] == line_break)
            assert_string_equal(error, "--mode=a?b?[1m: choose compare, single, dp, ddp, hello, "
                                       "bench, ladder or calibrate");
        if (words[i] == overlong)
            assert_non_null(strstr(
                error,
                "xxx...: choose compare, single, dp, ddp, hello, bench, ladder or calibrate"));
    }
}

/* The JSON keeps the command line; it can be typed again as it stands there. */
static void test_the_command_line_is_kept(void **state)
{
    (void)state;
    Options options;
    bool done;
    char *argv[] = {"./trainer", "--mode=dp", "--data=my images", "--json", "it's.json", NULL};
    assert_null(options_parse(5, argv, &options, &done));
    assert_string_equal(options.command_line,
                        "./trainer --mode=dp '--data=my images' --json 'it'\\''s.json'");
    options_free(&options);
}

/* --- what data and machine say ------------------------------------------------------------- */

static Error check(const char *line, const Dataset *data, int cores, Options *options)
{
    assert_null(parse(line, options));
    Error error = options_check(options, data, cores);
    options_free(options);
    return error;
}

static void test_checks_against_data_and_machine(void **state)
{
    (void)state;
    static const Dataset data = {
        .name = "synthetic",
        .train = {.count = 1000, .height = 28, .width = 28, .classes = 10},
        .test = {.count = 200, .height = 28, .width = 28, .classes = 9},
    };
    static const Bad bad[] = {
        {"--layers=100,10", "--layers begins with 100, but an image of synthetic has 28 x 28 = 784 "
                            "pixels: begin with 784"},
        {"--layers=784,32,9",
         "--layers ends with 9, but synthetic has 10 classes: end with 10 or more"},
        {"--mode=ddp --devices=9 --batch=8", "--batch=8 is less than --devices=9: some would have "
                                             "nothing to do; give at least one image each"},
        {"--devices=1,2,16 --batch=8", "--batch=8 is less than --devices=16: some would have "
                                       "nothing to do; give at least one image each"},
        {"--batch=1001", "--batch=1001 is more than the 1000 training images of synthetic"},
        {"--json=/no/such/run.json",
         "--json=/no/such/run.json: cannot be written: /no/such: No such file or directory"},
        {"--json=/", "--json=/: is a directory; give a file in it"},
        {"--mode=dp --save=/no/such/run",
         "--save=/no/such/run: cannot be written: /no/such: No such file or directory"},
        {"--mode=dp --save=/tmp", "--save=/tmp: is a directory; give a file in it"},
        {"--mode=dp --save=/dev/null", "--save=/dev/null: is not a file that could be replaced"},
        {"--json=/dev/null/run.json",
         "--json=/dev/null/run.json: cannot be written: Not a directory"},
        {"--batch=1", "--batch=1 is less than the 2 devices that --mode=compare takes by itself: "
                      "give at least one image each, or --devices"},
    };
    Options options;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        Error error = check(bad[i].line, &data, 4, &options);
        if (!error)
            fail_msg("%s is accepted", bad[i].line);
        assert_string_equal(error, bad[i].says);
    }
    Error error = check("--device=cpu --layers=784,1048576,1048576,10", &data, 4, &options);
    assert_non_null(error); /* how much memory there is depends on the machine */
    const char *says = "1100346 million weights, 26 models and batches of 256 need ";
    assert_memory_equal(error, says, strlen(says));
    assert_null(check("--layers=784,32,12", &data, 4, &options)); /* outputs may be left over */
    assert_null(check("--batch=1000 --json=new-file-here.json", &data, 4, &options));
    assert_int_not_equal(access("new-file-here.json", F_OK), 0); /* checked, but not made */
}

/* What was not typed is the saved run's; what was typed must be, too (each one: checkpoint.sh). */
static void test_a_resumed_run_decides(void **state)
{
    (void)state;
    const Progressed saved = {
        .layers = 2,
        .widths = {784, 20, 10},
        .optimizer = {.kind = OPTIMIZER_SGD, .lr = 0.25, .momentum = 0.5, .weight_decay = 0.125},
        .seed = 9,
        .batch = 48,
        .data = "synthetic",
        .samples = 960,
    };
    Options options;
    assert_null(parse("--mode=dp --resume=old", &options));
    assert_null(options_resume(&options, &saved));
    assert_int_equal(options.layers, 2);
    assert_int_equal(options.widths[1], 20);
    assert_int_equal(options.optimizer.kind, OPTIMIZER_SGD);
    assert_true(options.optimizer.lr == 0.25);
    assert_true(options.optimizer.momentum == 0.5);
    assert_true(options.optimizer.weight_decay == 0.125);
    assert_true(options.seed == 9);
    assert_int_equal(options.batch, 48);
    assert_string_equal(options.data, "synthetic");
    assert_int_equal(options.samples, 960);
    options_free(&options);

    assert_null(parse("--mode=dp --resume=old --batch=48 --layers=784,20,10 --lr=0.25", &options));
    assert_null(options_resume(&options, &saved));
    options_free(&options);

    assert_null(parse("--mode=dp --resume=old --optimizer=sgd --momentum=0.9", &options));
    Error error = options_resume(&options, &saved);
    assert_non_null(error);
    assert_string_equal(error, "--momentum contradicts old, which was saved with --momentum=0.5: "
                               "leave it out, or begin a new run with --load");
    options_free(&options);
}

static void test_defaults_fit_data_and_machine(void **state)
{
    (void)state;
    Dataset data = {
        .name = "images",
        .train = {.count = 1000, .height = 10, .width = 12, .classes = 3},
        .test = {.count = 200, .height = 10, .width = 12, .classes = 26},
    };
    Options options;
    assert_null(check("", &data, 6, &options));
    assert_int_equal(options.widths[0], 120);
    assert_int_equal(options.widths[options.layers], 26);
    const int devices[] = {1, 2, 4};
    assert_int_equal(options.device_counts, 3);
    assert_memory_equal(options.devices, devices, sizeof devices);

    assert_null(check("", &data, 1, &options)); /* two devices at least, to compare anything */
    assert_int_equal(options.device_counts, 2);
    assert_null(check("", &data, 100, &options));
    assert_int_equal(options.devices[options.device_counts - 1], 16);
    assert_null(check("--batch=3", &data, 100, &options)); /* none without work */
    assert_int_equal(options.devices[options.device_counts - 1], 2);
    assert_null(check("--mode=dp", &data, 100, &options));
    assert_int_equal(options.device_counts, 1);
    assert_int_equal(options.devices[0], 2);
    assert_null(check("--mode=single", &data, 100, &options));
    assert_int_equal(options.devices[0], 1);

    Error error = check("--samples=10", &data, 1, &options);
    assert_non_null(error);
    assert_string_equal(error, "--samples belongs to --data=synthetic; images has 1000 training "
                               "images");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_good_values),
        cmocka_unit_test(test_bad_values),
        cmocka_unit_test(test_slips_are_recognised),
        cmocka_unit_test(test_odd_text_is_shown_on_one_line),
        cmocka_unit_test(test_the_command_line_is_kept),
        cmocka_unit_test(test_options_that_do_not_go_together),
        cmocka_unit_test(test_checks_against_data_and_machine),
        cmocka_unit_test(test_a_resumed_run_decides),
        cmocka_unit_test(test_defaults_fit_data_and_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
