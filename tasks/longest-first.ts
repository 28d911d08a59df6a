import { BaseSequencer, type TestSpecification } from 'vitest/node'

/**
 * Files whose tests take longest on two cores, longest first, so that the run does not end waiting for one long file that started last. Those
 * of a project follow one another, so that a process can go on with the next file of it.
 */
const longest = [
  'window/states',
  'security/traced-agent',
  'shell/menu-bar',
  'agent/bad-input',
  'agent/commands',
  'agent/life-cycle',
  'agent/memory',
  'agent/mishaps',
  'agent/',
  'shell/',
  'security/',
  'window/views',
  'window/keyboard-views',
  'window/real-',
  'window/',
  'kube/',
  'unit/power/',
  'unit/reconcile/',
  'unit/models/download/',
  'unit/servers/',
]

/** Starts the longest files first. */
export default class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    return sorted.toSorted((a, b) => rank(a) - rank(b))
  }
}

function rank({ moduleId }: TestSpecification): number {
  const place = longest.findIndex((part) => moduleId.includes(`/test/${part}`))
  return place === -1 ? longest.length : place
}
