import { execa } from 'execa'
import { describe, expect, test } from 'vitest'
import { cliReference } from '../../../tasks/cli-reference.ts'
import { manPage } from '../../../tasks/package/man-page.ts'
import { onPath } from '../../../tasks/setup/tools.ts'
import { missingPrograms, skipWhen } from '../../support/skip.ts'

describe('the man page', () => {
  skipWhen(missingPrograms('groff'))

  /** As `man` prints it, at a width at which no line is broken. */
  async function printed(page: string) {
    const args = ['-man', '-Tutf8', '-Kutf8', '-rLL=2000n', '-ww', '-P', '-cbou']
    const { stdout, stderr } = await execa(onPath('groff') ?? 'groff', args, { input: page })
    return { text: stdout, complaints: stderr }
  }

  test('says of every verb and flag what docs/cli.md says, and groff has nothing to complain about', async () => {
    const { text, complaints } = await printed(manPage('1.2.3', 'linux'))
    const { verbs, flagSections, exitCodes } = cliReference('linux')
    const said = text.replaceAll(/\s+/g, ' ')
    const expected = [
      ...verbs.flatMap(({ usage, text: does, entries }) => [usage, does, ...entries.flat()]),
      ...[...flagSections.flatMap(({ entries }) => entries), ...exitCodes].flat(),
    ]
    expect(expected.length).toBeGreaterThan(300)
    expect(expected.filter((one) => !said.includes(one.replaceAll(/\s+/g, ' ')))).toEqual([])
    expect([complaints, said.includes('metal-agent 1.2.3')]).toEqual(['', true])
  })
})
