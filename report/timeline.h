/* timeline.h: one step of each run as lanes of letters, as timeline.c draws it into the tables and
 * playback.c while it grows. For report/ only.
 *
 *     Picture picture;
 *     if (picture_choose(&picture, runs, count, most_lanes)) {
 *         picture_scale(&picture, text->columns);
 *         for (int i = 0; i < picture.lane_count; i++) {
 *             picture_draw_lane(text, &picture, i, INFINITY);
 *             text_newline(text);
 *         }
 *     }
 */
#ifndef TRAINER_TIMELINE_H
#define TRAINER_TIMELINE_H

#include "report/screen.h"

enum { PICTURE_LETTERS = 10 };

typedef struct Lane {
    const char *name; /* as in the JSON: "device 1", "rank 0 comm" */
    const Result *run;
    bool first_of_run;
} Lane;

typedef struct Picture {
    Lane lanes[ALL_LANES];
    int lane_count;
    int devices;                    /* the most of any run */
    bool left_out;                  /* lanes that are not drawn */
    double longest_ms;              /* the longest step */
    double ms_per_letter;           /* by picture_scale, as are the next two */
    int mode_width, label_width;    /* columns before a lane's name, and before its letters */
    bool shown[PICTURE_LETTERS];    /* letters that stand in the lanes drawn so far, */
    bool happened[PICTURE_LETTERS]; /* and those that would, were they not too short */
} Picture;

/* Chooses lanes of these runs (NULL ones are skipped): all, if they are at most `most_lanes`, else
 * of each run the first two devices and the first rank's communication. False when no run has a
 * timeline. */
bool picture_choose(Picture *picture, const Result *const *runs, int count, int most_lanes);

/* Chooses the scale for which labels and letters take at most `columns`. */
void picture_scale(Picture *picture, int columns);

/* "devices 2-7 not drawn"; empty when all are. */
Figure picture_left_out(const Picture *picture);

/* Adds a lane to the line, as far as it had come `until_ms` after its step began. */
void picture_draw_lane(Text *text, Picture *picture, int lane, double until_ms);

/* Writes the line or lines that say what the letters drawn so far mean. What was too short to be
 * drawn is named, where lines are `few` only if that costs none. */
void picture_draw_legend(Text *text, const Picture *picture, bool few);

/* What is drawn of a lane at one moment. */
typedef struct Doing {
    const char *words; /* "copying the model" */
    TextColour colour;
} Doing;

/* What a lane does `ms` after its step began. */
Doing lane_doing(const Lane *lane, double ms);

/* "boss", "dev 1", "rank 0", "comm 0": what stands before a lane. */
Figure lane_label(const Lane *lane);

/* Is it what a rank's communication thread does, beside the rank? */
bool lane_is_communication(const Lane *lane);

/* Milliseconds of the step in which the lane waited or had nothing to do. */
double lane_waited_ms(const Lane *lane);

/* How long the step took that the timeline shows, from the first to the last moment of any lane;
 * NAN without a timeline. */
double timeline_step_ms(const Result *run);

#endif
