/*-------------------------------------------------------------------------
 *
 * tap.h
 *		Test results in the Test Anything Protocol.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TAP_H
#define TAP_H

extern void tap_ok(bool passed, const char *name,...) pg_attribute_printf(2, 3);
extern void tap_skip(const char *name, const char *reason);
extern void tap_note(const char *fmt,...) pg_attribute_printf(1, 2);
extern int	tap_done(void);

#endif							/* TAP_H */
