import { describe, expect, test, vi } from 'vitest'
import type { UpdateState } from '../../../src/contract/app-state.ts'
import type { Found } from '../../../src/main/updates/update-source.ts'
import { Updates } from '../../../src/main/updates/updates.ts'
import { silentLog } from '../../support/silent-log.ts'

vi.mock('electron', () => import('../../support/electron-stand-in/electron.ts'))

const newer: Found = { version: '1.2.3', isNewer: true, bytes: 1_000 }

/** A server that answers what is said here, or fails. */
function world() {
  const states: UpdateState[] = []
  const said = { found: newer, error: undefined as Error | undefined, looks: 0 }
  const updates = new Updates({
    log: silentLog,
    stateDir: '/nowhere',
    version: '1.2.2',
    source: {
      look: () => {
        said.looks += 1
        return said.error ? Promise.reject(said.error) : Promise.resolve(said.found)
      },
      download: () => Promise.resolve(),
      stage: () => Promise.resolve(),
      install: () => Promise.resolve(),
    },
    refusal: () => undefined,
    freeBytes: () => Promise.resolve(undefined),
    onState: (state) => states.push(state),
    endBy: () => Promise.resolve(),
    relaunch: () => undefined,
  })
  const until = (step: UpdateState['step']) => vi.waitFor(() => expect(states.at(-1)?.step).toBe(step))
  return { updates, said, until, now: () => states.at(-1) }
}

describe('an update that is downloaded', () => {
  test('is still there after the daily look and after a look that a person asks for', async () => {
    const { updates, said, until, now } = world()
    updates.act('look')
    await until('available')
    updates.act('download')
    await until('downloaded')
    expect(await updates.lookQuietly()).toBeUndefined()
    updates.act('look')
    expect([now(), said.looks]).toEqual([{ step: 'downloaded', version: '1.2.3' }, 1])
  })
})

test('a daily look that fails leaves what was known, and the same version is not news again', async () => {
  const { updates, said, until, now } = world()
  updates.act('look')
  await until('available')
  said.error = new Error('no network')
  await updates.lookQuietly()
  const afterFailure = now()?.step
  said.error = undefined
  expect([afterFailure, await updates.lookQuietly()]).toEqual(['available', undefined])
})
