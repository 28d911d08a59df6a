import type { ManagerView } from '../../contract/model-application.ts'

export const deleteWords = {
  ask: 'Delete…',
  askOne: (name: string) => `Delete ${name}…`,
  title: 'Delete',
  asking: 'Looking at what would be deleted…',
  manager: ({ tool, object, evidence }: ManagerView) => `${tool} keeps its ${object} as well (${evidence}).`,
  now: (name: string) => `Delete ${name}`,
  anyway: (name: string) => `Delete ${name} all the same`,
  keep: 'Keep',
  again: 'Try again',
  pending: 'Deleting…',
} as const
