import { useState } from 'react'
import type { AppBridge } from '../../contract/app-bridge.ts'
import { Banner } from '../components/banner.tsx'
import { Button } from '../components/button.tsx'
import { useApp } from '../store.ts'
import { useAppState } from '../use-app-state.ts'
import { misplacedWords } from '../words/settings/updates.ts'

/** The app runs where it cannot stay. */
export function MisplacedApp() {
  const app = useApp()
  return app === undefined ? null : <Offer app={app} />
}

function Offer({ app }: { readonly app: AppBridge }) {
  const { state } = useAppState(app)
  const [problem, setProblem] = useState<string>()
  if (state?.misplaced === undefined) return null
  const move = async () => {
    const reply = await app.moveToApplications()
    setProblem(reply.ok ? reply.value?.message : reply.failure.message)
  }
  return (
    <Banner tone="warn" actions={<Button onPress={() => void move()}>{misplacedWords.move}</Button>}>
      {misplacedWords.where[state.misplaced]} {misplacedWords.why}
      {problem !== undefined && <p role="alert">{problem}</p>}
    </Banner>
  )
}
