import { useState } from 'react'
import type { LogRun } from '../../contract/log.ts'
import type { ServiceView } from '../../contract/service.ts'
import { Button } from '../components/button.tsx'
import { useApp } from '../store.ts'
import { logWords } from '../words/log.ts'
import styles from './log-view.module.css'

/** Shows the file of a run in its folder; a page in a browser has no button for it. */
export function RevealLog({ service, run }: { readonly service: ServiceView; readonly run: LogRun }) {
  const app = useApp()
  const [problem, setProblem] = useState<string>()
  if (app === undefined) return null
  const reveal = async () => {
    const { namespace, name } = service
    const reply = await app.revealLog({ service: { namespace, name }, run })
    setProblem(reply.ok ? undefined : reply.failure.message)
  }
  return (
    <>
      <Button look="plain" onPress={() => void reveal()}>
        {logWords.reveal}
      </Button>
      {problem !== undefined && (
        <span className={styles['problem']} role="alert">
          {problem}
        </span>
      )}
    </>
  )
}
