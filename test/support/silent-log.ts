import type { Logger } from '../../src/agent-core/observability/logger.ts'

/** For tests that do not look at the log. */
export const silentLog: Logger = { debug: ignore, info: ignore, warn: ignore, error: ignore }

function ignore(): void {
  // nothing to keep
}
